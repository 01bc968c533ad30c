"""The entry points of the top level and of scripts/, as links, so that an installed package has them too."""
