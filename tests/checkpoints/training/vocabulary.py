"""The closed world of the tiny model: everything it can see, copy or say."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Ids 0 to 6; decoding drops them.
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)

#: Single tokens too, but decoding keeps them: the host's tool parser reads them as text.
MARKUP_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
)

PAD_ID, END_ID, IMAGE_ID, VIDEO_ID = 0, 2, 5, 6
VISION_START_ID, VISION_END_ID = 3, 4
FIRST_WORD_ID = len(SPECIAL_TOKENS) + len(MARKUP_TOKENS)

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 30, 35),
    "green": (30, 165, 55),
    "blue": (30, 60, 215),
    "yellow": (240, 220, 40),
    "black": (15, 15, 15),
    "white": (242, 242, 242),
    "orange": (245, 140, 25),
    "purple": (130, 35, 150),
}

CITIES = _words(
    "Paris London Berlin Tokyo Madrid Rome Oslo Vienna Boston Chicago Sydney Lima "
    "Dublin Cairo Athens Lisbon Prague Seoul Delhi Zurich"
)
CONDITIONS = _words("sunny cloudy rainy windy snowy foggy clear stormy")
TEMPERATURES = tuple(range(40))

FILE_STEMS = _words("hello notes readme todo main config data index app server client demo setup test report")
FILE_EXTENSIONS = ("txt", "md", "py", "json")
WORDS = _words(
    "hi hello world apple banana cherry river stone cloud tiger paper window garden "
    "music silver winter summer coffee happy quick orange lemon mountain ocean forest "
    "bridge candle mirror pencil rocket"
)

#: The words of system prompts, notes and tool descriptions that mean nothing.
PROSE = _words(
    "you are a helpful coding assistant agent that works in the user workspace and "
    "follows these rules always answer short be precise never guess use tools when "
    "needed do not invent results prefer small changes read files before editing them "
    "run tests after each change explain what did keep going until task is done the "
    "current date sandbox mode network access approval policy shell bash zsh directory "
    "path environment context repository project write clear code style format markdown "
    "plain text lists bullets headers commit message review plan step"
)


def all_words() -> list[str]:
    """Every word that must be exactly one token, once each, in a fixed order."""
    groups = (CITIES, WORDS, FILE_STEMS, CONDITIONS, PROSE, COLOURS, FILE_EXTENSIONS)
    numbers = [str(number) for number in range(100)]
    return list(dict.fromkeys([word for group in groups for word in group] + numbers))
