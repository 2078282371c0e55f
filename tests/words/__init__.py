"""Numbers and claims in the texts, compared with the JSON files beside them: one file per page."""
