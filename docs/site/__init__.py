"""The documentation site: pages made from the tables and from docs/, built by MkDocs Material."""
