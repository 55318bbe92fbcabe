"""The compiled loops of RELEAF's rivals, one module for each kind of knowledge that they keep."""
