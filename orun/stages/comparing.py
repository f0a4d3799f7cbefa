"""What two models are fed that are compared inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orun.stages.contract import Context
from orun.stages.datasets import load_dataset
from orun.stages.params import Code

if TYPE_CHECKING:
    from numpy.typing import NDArray


def feeds_of(
    context: Context, dataset: Code | None, samples: int, shape: Mapping[str, int]
) -> list[dict[str, NDArray[Any]]]:
    """The first examples of a data set, one at a time, or as many that are made up from the model's signature.

    Args:
        context: of the stage, whose primary model says which inputs there are.
        dataset: the user's function; None for inputs that are made up.
        samples: how many.
        shape: sizes of dynamic axes by name, for inputs that are made up.
    """
    from orun.measure.dataset import batches
    from orun.stages.onnx_io import load_graph
    from orun.stages.signature import input_names
    from orun.stages.timing import Sizes, feeds

    models = {port: context.model(port) for port in context.inputs}
    if dataset is None:
        made = [feeds(models, Sizes(1, shape), context.seed + number, None) for number in range(samples)]
        return [{name: value for feed in one.values() for name, value in feed.items()} for one in made]
    names = dict.fromkeys(name for path in models.values() for name in input_names(load_graph(path)))
    examples = load_dataset(context, dataset, list(names)).take(samples)
    return [dict(batch.feed) for batch in batches({name: examples.inputs[name] for name in names}, 1)]
