"""The words of session names: `jolly-squid`. Short, easy to say, kind in every combination."""

from collections.abc import Iterator
from typing import Final

ADJECTIVES: Final = tuple(
    """
    able agile airy amber ample apt arctic artful autumn balmy bold brave breezy bright brisk bubbly busy calm candid
    careful cheery chipper civil clear clever coastal copper cosy crisp curious dapper daring deft dreamy eager early
    earnest easy fair fancy fearless fleet fluffy fond frank free fresh frosty gallant gentle gifted gilded glad golden
    grand hale handy happy hardy hearty helpful honest humble ideal ivory jaunty jolly jovial keen kind lively loyal
    lucid lucky lunar mellow merry mighty mild misty modest mossy neat nifty nimble noble olive patient peppy placid
    plucky polite proud quick quiet rapid rosy rustic sage sandy serene sharp silver sleek smart snowy solar spry
    steady sunny swift tidy tranquil trusty upbeat velvet vivid warm willing windy wise witty woolly zesty
    """.split()  # noqa: SIM905 - a list of a hundred strings is harder to read
)
ANIMALS: Final = tuple(
    """
    alpaca antelope badger bat bear beaver bee bison boar bobcat buffalo camel caribou cat cheetah chipmunk cobra
    condor corgi cougar coyote crab crane cricket crow deer dingo dolphin dormouse dove dragonfly duck eagle egret elk
    emu falcon ferret finch firefly flamingo fox frog gazelle gecko gibbon giraffe goat goose gopher hamster hare hawk
    hedgehog heron horse ibex ibis iguana jackdaw jaguar jay kestrel kingfisher kiwi koala lark lemur leopard lion
    lizard llama lobster lynx magpie manatee marmot marten meerkat mole moose moth mouse newt nightingale octopus orca
    oriole osprey otter owl ox panda panther parrot pelican penguin pheasant pigeon pika plover pony puffin puma quail
    rabbit raccoon raven reindeer robin salmon seal sheep shrew skylark sparrow squid squirrel starling stoat stork
    swallow swan tapir tern tiger toad toucan trout turtle vole walrus weasel whale wolf wombat wren yak zebra
    """.split()  # noqa: SIM905
)


def every() -> Iterator[str]:
    """Each name that can be made."""
    return (f"{adjective}-{animal}" for adjective in ADJECTIVES for animal in ANIMALS)
