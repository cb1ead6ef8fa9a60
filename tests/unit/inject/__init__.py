"""`specloop inject` on manifests in the shapes in which they come."""
