"""The default hook implementations, and the only code that imports the host.

Installed as ``responses_plugin.hooks``.

========================  ========================================================================================
``host``                  finds the running host: its server module, command line, app and version
``server_flag``           ``--responses-plugin`` and the plugin's own options
``endpoints``             the routes that replace or join the host's
``model_list``            what ``/v1/models`` tells beyond names
``request_parsing``       the first seam: what an input item is, and its chat messages
``mllm_messages``         the second seam: chat messages to what multimodal engines and templates get
``output_items``          the third seam: the wire form of what the model generated
``chat``                  generation through the host's own chat-completions handler; ``generation`` is one such call
``templates``             what the loaded model's chat template accepts
``structured``            ``text.format`` as the host enforces it
``cached_tokens``         what the batched engine found in its prefix cache
========================  ========================================================================================

The rest are defects of the host that other clients meet as well, one module each, mended for
``/v1/chat/completions`` with ``/v1/responses``: ``adjacent_messages``, ``batched_prefix_cache``, ``native_video``,
``registry_loads``, ``repeated_prompts``, ``request_positions``, ``stale_image_cache``, ``text_route``, ``tool_images``
and ``tool_text``.
"""
