"""Recipes beside the tools of others: the pages' files run in those tools' languages, and what they say is there."""
