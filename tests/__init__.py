"""Tests of SpecLoop: units first, then components on loopback servers, then real engines."""
