"""The stage library: `uses: quantize/static` is `stages/quantize/static.py`."""
