"""The properties that masks guarantee, tested from outside by changing inputs."""
