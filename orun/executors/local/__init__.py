"""Local executor: stages in processes forked from servers that have imported their libraries."""
