"""The promises that masks make, tested from outside by changing inputs."""
