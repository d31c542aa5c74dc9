"""Search engines: each answers the requests of the wavefront for one kind of model."""
