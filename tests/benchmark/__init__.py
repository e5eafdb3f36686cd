"""What the plugin costs: ``python -m tests.benchmark`` prints ratios of one run on the real host.

Only the engine is scripted: its outputs are made beforehand and come one by one without a delay, so that what is
measured is the way of a token through the host and the plugin. Absolute numbers depend on the machine; the ratios are
what counts. ``prefix`` is another matter: it counts tokens, which the tiny model really reads.

================  ================================================================================================
``throughput``    streamed and whole answers: the plugin, the host's chat endpoint, the host's own ``/v1/responses``
``parsing``       parsing and lowering a request full of images, against ``json.loads`` of the same bytes
``first_event``   when ``response.created`` arrives while the prompt is still being read
``blocking``      for how long one request keeps the event loop from everybody else
``prefix``        what a turn of an agent's session prefills again, on the tiny model: ``prefill_counter`` counts in
                  the server, ``trace`` is the session
``scripts``       the answers; ``bodies`` the requests
``engine``        the host with an engine that costs nothing
``asgi``          a client in this process; ``server`` the host under uvicorn, and ``client`` its client
``report``        tables, targets and JSON
================  ================================================================================================

Time is CPU time of this process unless a column says otherwise. No measurement waits for anything but the CPU, so
that on an idle machine it is what a clock would show, and a busy machine spoils it less. What is compared is measured
in turns, and ratios are medians of the ratios of each turn.
"""
