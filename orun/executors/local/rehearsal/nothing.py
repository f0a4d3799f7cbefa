"""The stage that is rehearsed, as a user would write it."""

from orun.stages.contract import Context, stage


@stage(inputs={"input": "files"}, output="metrics")
def nothing(context: Context, *, number: int) -> dict[str, int]:
    """Do what most stages do, but for writing."""
    return {"length": len((context.inputs["input"] / "nothing.py").read_text("utf-8")) * number}
