"""Steps of Algorithm 1 that take more than a line of `cbdl.model`: border, fitting, rows left out, missing inputs."""
