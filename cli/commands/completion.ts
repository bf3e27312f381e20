import type { Command } from 'commander';
import { invalidInput } from '../../protocol/error.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';

type Completed = ReturnType<typeof describeCommands>[number];

const SHELLS: Readonly<Record<string, (commands: readonly Completed[]) => string>> = {
  bash: writeBash,
  zsh: writeZsh,
  fish: writeFish,
};

/** Prints the ids of the last runs, one a line. Bash expands words, so ids with other characters are left out. */
const RUN_IDS = `agentchart runs --json --limit 50 2>/dev/null | sed -n 's/^{"runId":"\\([A-Za-z0-9_.:-]*\\)".*/\\1/p'`;

export const completion: Action<'completion'> = ({ shell }, { parent: program }) => {
  const write = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (write === undefined)
    throw invalidInput(
      `There is no completion for "${shell}". Give one of ${Object.keys(SHELLS).join(', ')}.`,
    );
  process.stdout.write(write(describeCommands(program)));
  return EXIT.done;
};

/** The commands as shells complete them, with the options of theirs. `takesRun`: the first argument is a run. */
function describeCommands(program: Command | null) {
  if (program === null) return [];
  const help = program.createHelp();
  const optionsOf = (command: Command) =>
    help.visibleOptions(command).map(({ short, long, description, required, optional }) => ({
      flags: [short, long].filter(flag => flag !== undefined),
      description,
      takesValue: required || optional,
    }));
  return help.visibleCommands(program).map(command => ({
    name: command.name(),
    summary: command.summary() || command.description(),
    words: command.commands.map(below => below.name()),
    options: [
      ...new Map(
        [...command.commands, command].flatMap(optionsOf).map(option => [option.flags.join(), option]),
      ).values(),
    ],
    takesRun: command.registeredArguments[0]?.name() === 'run',
  }));
}

function writeBash(commands: readonly Completed[]): string {
  const options = commands.map(
    ({ name, options }) => `    ${name}) words=${quote(options.flatMap(({ flags }) => flags).join(' '))} ;;`,
  );
  return `# Completion of agentchart for bash, made by: agentchart completion bash
_agentchart() {
  local word=\${COMP_WORDS[COMP_CWORD]} words=
  if [[ $COMP_CWORD -eq 1 ]]; then
    words=${quote(commands.map(({ name }) => name).join(' '))}
  elif [[ $word == -* ]]; then
    case \${COMP_WORDS[1]} in
${options.join('\n')}
    esac
  elif [[ $COMP_CWORD -eq 2 ]]; then
    case \${COMP_WORDS[1]} in
    ${takingRuns(commands).join('|')}) words=$(${RUN_IDS}) ;;
${withWords(commands, (name, words) => `    ${name}) words=${quote(words)} ;;`)}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _agentchart agentchart
`;
}

function writeZsh(commands: readonly Completed[]): string {
  const described = (name: string, text: string) => quote(`${name.replaceAll(':', '\\:')}:${text}`);
  const options = commands.map(({ name, options }) => {
    const words = options.flatMap(({ flags, description }) =>
      flags.map(flag => described(flag, description)),
    );
    return `    ${name}) words_of=(${words.join(' ')}) ;;`;
  });
  return `#compdef agentchart
# Completion of agentchart for zsh, made by: agentchart completion zsh
_agentchart() {
  local -a words_of
  if (( CURRENT == 2 )); then
    words_of=(${commands.map(({ name, summary }) => described(name, summary)).join(' ')})
    _describe command words_of
  elif [[ $PREFIX == -* ]]; then
    case $words[2] in
${options.join('\n')}
    esac
    _describe -o option words_of
  else
    if (( CURRENT == 3 )); then
      case $words[2] in
      ${takingRuns(commands).join('|')}) compadd -- \${(f)"$(${RUN_IDS})"} ;;
${withWords(commands, (name, words) => `      ${name}) compadd -- ${words} ;;`)}
      esac
    fi
    _files
  fi
}
compdef _agentchart agentchart
`;
}

function writeFish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, summary, options }) => [
    `complete -c agentchart -n __fish_use_subcommand -f -a ${name} -d ${quoteFish(summary)}`,
    ...options.map(({ flags, description, takesValue }) => {
      const names = flags.map(flag =>
        flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
      );
      const value = takesValue ? ' -r' : '';
      return `complete -c agentchart -n '__fish_seen_subcommand_from ${name}' ${names.join(' ')}${value} -d ${quoteFish(description)}`;
    }),
  ]);
  const runs = takingRuns(commands).join(' ');
  return `# Completion of agentchart for fish, made by: agentchart completion fish
function __agentchart_runs
  ${RUN_IDS}
end
${lines.join('\n')}
complete -c agentchart -n '__fish_seen_subcommand_from ${runs}' -a '(__agentchart_runs)'
${withWords(commands, (name, words) => `complete -c agentchart -n '__fish_seen_subcommand_from ${name}' -a '${words}'`)}
`;
}

/** A line for each command that has commands of its own. */
function withWords(commands: readonly Completed[], write: (name: string, words: string) => string): string {
  const having = commands.filter(({ words }) => words.length > 0);
  return having.map(({ name, words }) => write(name, words.join(' '))).join('\n');
}

function takingRuns(commands: readonly Completed[]): string[] {
  return commands.filter(({ takesRun }) => takesRun).map(({ name }) => name);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** As one word of fish, where a backslash escapes in quotes too. */
function quoteFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
