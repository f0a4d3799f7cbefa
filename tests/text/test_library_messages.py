"""Messages of libraries in a few lines."""

from __future__ import annotations

from orun.text.library_messages import shorten_message

TENSORFLOW = """Graph execution error:

Detected at node functional/dense/BiasAdd defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

  File "net.py", line 88, in load

Matrix size-incompatible: In[0]: [1,16], In[1]: [480,3]
\t [[{{node functional/dense/BiasAdd}}]] [Op:__inference_flat_146]"""


def test_the_first_lines() -> None:
    assert shorten_message("") == "no message"
    assert shorten_message("one\n\n  two\nthree\nfour") == "one\ntwo\nthree"
    assert shorten_message("x" * 1000) == f"{'x' * 300}..."


def test_the_reason_behind_a_listing_of_files() -> None:
    assert shorten_message(TENSORFLOW) == (
        "Matrix size-incompatible: In[0]: [1,16], In[1]: [480,3]\n"
        "[[{{node functional/dense/BiasAdd}}]] [Op:__inference_flat_146]"
    )
