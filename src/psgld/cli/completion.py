"""`psgld completion`: a script that lets the shell complete commands, options and their choices."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import Any

from .options import Parser

_SHELLS = ("bash", "zsh", "fish")

_SCRIPT = """\
_psgld() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
      *)
        case "${{COMP_WORDS[1]}}:$current" in
{options}
        esac ;;
    esac
  fi
  if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$current")); fi
}}
complete -o default -F _psgld psgld
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print a script for completion of commands, options and their values in the shell.",
        epilog='Example:\n  eval "$(psgld completion bash)"    # in ~/.bashrc\n'
        '  eval "$(psgld completion zsh)"     # in ~/.zshrc\n'
        "  psgld completion fish | source     # in ~/.config/fish/config.fish",
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the script for the parser of all commands, which comes with the arguments."""
    if args.shell == "fish":
        print(fish_script(args.parser), end="")
        return 0
    # zsh runs the functions of bash, after this line.
    before = (
        "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" if args.shell == "zsh" else ""
    )
    print(before + script(args.parser), end="")
    return 0


def script(parser: Parser) -> str:
    """Return the script for bash: what comes after each option that has choices, and the options of each command."""
    values, options = [], []
    commands = subparsers(parser)
    for name, command in commands.items():
        for action in command._actions:
            if action.nargs == 0 or not action.option_strings:
                continue
            patterns = "|".join(f'"{name} {option}"' for option in action.option_strings)
            values.append(f'      {patterns}) words="{_choices(action)}" ;;')
        known = [option for action in command._actions for option in action.option_strings]
        options.append(f'          {name}:-*) words="{" ".join(known)}" ;;')
        if named := " ".join(
            _choices(action) for action in command._actions if not action.option_strings
        ).strip():
            options.append(f'          {name}:*) words="{named}" ;;')
    own = [option for action in parser._actions for option in action.option_strings]
    return _SCRIPT.format(
        commands=" ".join([*commands, *own]), values="\n".join(values), options="\n".join(options)
    )


def fish_script(parser: Parser) -> str:
    """Return the script for fish: a line for each command, option and list of choices."""
    lines, commands = [], subparsers(parser)
    for name, command in commands.items():
        lines.append(f"complete -c psgld -f -n __fish_use_subcommand -a {name}")
        here = f"complete -c psgld -n '__fish_seen_subcommand_from {name}'"
        for action in command._actions:
            choices = f" -x -a '{_choices(action)}'" if action.choices else "" if action.nargs == 0 else " -r"
            options = [f"-l {o[2:]}" if o.startswith("--") else f"-s {o[1:]}" for o in action.option_strings]
            if options:
                lines.append(" ".join([here, *options]) + choices)
            elif action.choices:
                lines.append(f"{here} -f -a '{_choices(action)}'")
    return "\n".join([*lines, ""])


def subparsers(parser: Parser) -> dict[str, Parser]:
    """Return the parsers of the commands by name."""
    found = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


def _choices(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))
