"""Words for facts: names of key components, sentences for reasons and findings."""
