"""The supported releases of the host, each tried: ``python -m tests.matrix``.

Every release's own wheel is downloaded once, without its dependencies, and stands in front of the installed host on
``PYTHONPATH``: one set of dependencies for all. Three steps, of which any can be asked for by name:

==============  ====================================================================================================
``contract``    the tests marked ``contract``, on every release, but for those marked ``since`` a later one
``acceptance``  the tests with the tiny models on every release: both engines, plain answers and streams
``table``       what ``doctor`` says on every release, compared with the table in ``docs/compatibility.md``;
                ``--write`` brings the table up to date
==============  ====================================================================================================

A step without a test, or with one that was skipped, has failed.
"""
