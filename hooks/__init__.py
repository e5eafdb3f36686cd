"""The default hook implementations, and the only code that imports the host.

Installed as ``responses_plugin.hooks``. One module a seam:

=====================  ============================================================================================
``host``               finds the running host: its server module, command line, app and version
``server_flag``        ``--responses-plugin`` and the plugin's own options
``request_parsing``    request parsing: Responses items, parts and tools to chat messages and chat tools
``mllm_messages``      MLLM message construction: what the multimodal engines and templates get
``output_items``       output item building: what the model generated to output items, by tool kind
``chat``               generation through the host's own chat-completions handler
``templates``          what the loaded model's chat template accepts, asked with the engine's own renderer
``endpoints``          the routes that replace or join the host's
``stale_image_cache``  a host defect that any client meets who repeats a request with images
=====================  ============================================================================================
"""
