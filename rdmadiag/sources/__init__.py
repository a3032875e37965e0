"""Where facts come from: one file a place, a pure `parse_*` and a thin `read_*` each."""
