"""scikit-learn models: how they are exported and checked."""
