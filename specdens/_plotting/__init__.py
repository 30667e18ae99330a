"""Pictures of densities. Needs matplotlib, except for the SVG of notebooks."""
