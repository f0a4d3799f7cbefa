from __future__ import annotations

from orun.executors.local.preload import list_modules
from orun.stages.contract import Spec
from tests.executors.support import Project, forked

pytestmark = forked


def test_what_the_kind_asks_for_in_an_order_of_our_own(project: Project) -> None:
    spec = Spec(output="metrics", preload=("onnxsim", "torch", "onnxruntime.quantization", "numpy", "onnx"))
    job = project.job("orun.stages.x.y", origin="built-in", spec=spec)
    assert list_modules(job) == ("numpy", "onnx", "onnxruntime.quantization", "torch", "onnxsim")


def test_what_others_import_comes_first_so_that_it_is_shared(project: Project) -> None:
    job = project.job("orun.stages.x.y", origin="built-in", spec=Spec(output="metrics", preload=("onnxruntime",)))
    assert list_modules(job) == ("numpy", "onnxruntime")


def test_onnx_checks_what_is_an_onnx_artifact(project: Project) -> None:
    assert list_modules(project.job("orun.stages.x.y", origin="built-in", spec=Spec(output="onnx"))) == (
        "numpy",
        "onnx",
    )


def test_libraries_of_every_code_file_that_the_parameters_name(project: Project) -> None:
    project.write("pipelines/model.py", "import torch, json, helper, package, beside\nfrom orun import stage\n")
    project.write("pipelines/data/docs.py", "import transformers, beside, model\n")
    project.write("pipelines/helper.py", "import sklearn")
    project.write("pipelines/package/inner.py", "")
    project.write("pipelines/data/beside.py", "")
    params = {
        "model": "model.py:load",
        "nested": [{"dataset": "data/docs.py:pairs"}],
        "time": "12:30",
        "gone": "gone.py:f",
    }
    job = project.job("orun.stages.x.y", origin="built-in", spec=Spec(output="metrics"), params=params)
    assert list_modules(job) == ("numpy", "torch", "transformers", "beside")


def test_libraries_of_a_function_of_the_user_s(project: Project) -> None:
    project.write(
        "pipelines/mine.py", "import yaml\ndef f(context):\n    import torch\ndef g(context):\n    import onnx\n"
    )
    assert list_modules(project.job("mine.py:f")) == ("numpy", "torch", "yaml")
    assert list_modules(project.job("mine.py:g")) == ("numpy", "onnx", "yaml")


def test_no_library_is_imported_before_code_that_sets_what_it_may_read(project: Project) -> None:
    project.write("pipelines/mine.py", "import os\nos.environ['HF_HUB_OFFLINE'] = '1'\nimport transformers\n")
    job = project.job("mine.py:f", spec=Spec(output="metrics", preload=("numpy",)))
    assert list_modules(job) == ("numpy",)
