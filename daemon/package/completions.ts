/**
 * Generates shell completion scripts from the declarations of the commands. The scripts are static, so completion does
 * not have to start kreplay.
 */
import { type CommandFacts, type OptionFacts, walkCommands } from './command_tree.ts';

/** Names of option arguments that are paths. */
const FILE_ARGUMENTS = new Set(['file', 'files', 'path', 'paths', 'folder']);

const BANNER = '# Made from the commands by daemon/package/completions.ts.';

function isFile({ argument }: OptionFacts): boolean {
  return argument !== undefined && FILE_ARGUMENTS.has(argument);
}

function listCommandNames(command: CommandFacts): string[] {
  return command.commands.map(({ path }) => path.at(-1)!);
}

function listLongOptions(options: readonly OptionFacts[]): string[] {
  return options.map(({ long }) => long);
}

/** Formats a command's path for the case statements below: `config print` for `kreplay config print`. */
function formatPath({ path }: CommandFacts): string {
  return path.join(' ');
}

/** Puts a text in single quotes, in a form that bash, zsh and fish understand. */
function quoteShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function buildBashCompletion(root: CommandFacts): string {
  const commands = [...walkCommands(root)];
  const words = commands.map(
    (command) =>
      `\t\t${quoteShell(formatPath(command))}) words=${quoteShell([...listCommandNames(command), ...listLongOptions(command.options)].join(' '))} ;;`,
  );
  const values = commands.flatMap((command) =>
    command.options
      .filter(({ takesValue }) => takesValue)
      .map((option) => {
        const choices = `COMPREPLY=($(compgen -W ${quoteShell(option.choices.join(' '))} -- "$current"))`;
        const found = isFile(option) ? 'COMPREPLY=($(compgen -f -- "$current"))' : choices;
        return `\t\t${quoteShell(`${formatPath(command)} ${option.long}`)}) ${found}; return ;;`;
      }),
  );
  const paths = commands.filter(({ path }) => path.length > 0).map((command) => quoteShell(formatPath(command)));
  return `${BANNER}
_kreplay() {
	local current=\${COMP_WORDS[COMP_CWORD]} path= word words last= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=\${COMP_WORDS[i]}
		case $word in
		--) return ;;
		-*) last=$word ;;
		*) case "\${path:+$path }$word" in ${paths.join('|')}) path="\${path:+$path }$word" ;; esac ;;
		esac
	done
	# The value of an option, or a further one of its list.
	if [[ $current != -* ]]; then
		case "$path $last" in
${values.join('\n')}
		esac
	fi
	case $path in
${words.join('\n')}
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _kreplay kreplay
`;
}

export function buildFishCompletion(root: CommandFacts): string {
  const lines = [...walkCommands(root)].flatMap((command) => {
    const condition = `-n ${quoteShell(buildFishCondition(command))}`;
    const below = command.commands.map(
      ({ path, description }) =>
        `complete -c kreplay ${condition} -a ${path.at(-1)} -d ${quoteShell(takeFirstLine(description))}`,
    );
    const options = command.options.map((option) => `complete -c kreplay ${condition} ${buildFishOption(option)}`);
    return [...below, ...options];
  });
  return `${BANNER}\ncomplete -c kreplay -f\n${lines.join('\n')}\n`;
}

function buildFishCondition({ path, commands }: CommandFacts): string {
  if (path.length === 0) return '__fish_use_subcommand';
  const below = commands.map((one) => one.path.at(-1));
  const not = below.length > 0 ? `; and not __fish_seen_subcommand_from ${below.join(' ')}` : '';
  return `${path.map((name) => `__fish_seen_subcommand_from ${name}`).join('; and ')}${not}`;
}

function buildFishOption(option: OptionFacts): string {
  const value =
    option.choices.length > 0 ? ` -x -a ${quoteShell(option.choices.join(' '))}` : isFile(option) ? ' -r -F' : ' -x';
  return `-l ${option.long.slice(2)}${option.takesValue ? value : ''} -d ${quoteShell(takeFirstLine(option.description))}`;
}

export function buildZshCompletion(root: CommandFacts): string {
  const functions = [...walkCommands(root)].map((command) => buildZshFunction(command));
  return `#compdef kreplay\n${BANNER}\n\n${functions.join('\n')}\n_kreplay "$@"\n`;
}

function buildZshName({ path }: CommandFacts): string {
  return ['_kreplay', ...path].join('_');
}

function buildZshFunction(command: CommandFacts): string {
  const specs = command.options.map((option) => `\t\t${quoteShell(buildZshOption(option))}`);
  if (command.commands.length === 0)
    return `${buildZshName(command)}() {\n\t_arguments \\\n${[...specs, "\t\t'*:file:_files'"].join(' \\\n')}\n}\n`;
  const listed = command.commands.map(
    ({ path, description }) => `\t\t${quoteShell(`${path.at(-1)}:${takeFirstLine(description)}`)}`,
  );
  const calls = command.commands.map((below) => `\t\t${below.path.at(-1)}) ${buildZshName(below)} ;;`);
  return `${buildZshName(command)}() {
	local -a commands
	local line state
	commands=(
${listed.join('\n')}
	)
	_arguments -C \\
${specs.join(' \\\n')} \\
		'1: :->command' '*:: :->rest'
	case $state in
	command) _describe -t commands command commands ;;
	rest)
		case $line[1] in
${calls.map((call) => `\t${call}`).join('\n')}
		esac
		;;
	esac
}
`;
}

function buildZshOption(option: OptionFacts): string {
  const description = takeFirstLine(option.description).replaceAll(/[[\]\\:]/g, '\\$&');
  const values = option.choices.length > 0 ? `(${option.choices.join(' ')})` : isFile(option) ? '_files' : ' ';
  return `${option.isList ? '*' : ''}${option.long}[${description}]${option.takesValue ? `:${option.argument}:${values}` : ''}`;
}

function takeFirstLine(text: string): string {
  return text.split('\n')[0]!;
}
