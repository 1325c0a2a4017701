/** Writes shell completions from the commands' own declarations, so that completing does not start kreplay. */
import { type CommandFacts, everyCommand, type OptionFacts } from './command_tree.ts';

/** Arguments of options that are paths. */
const FILE_ARGUMENTS = new Set(['file', 'files', 'path', 'paths', 'folder']);

const BANNER = '# Made from the commands by daemon/package/completions.ts.';

function isFile({ argument }: OptionFacts): boolean {
  return argument !== undefined && FILE_ARGUMENTS.has(argument);
}

function names(command: CommandFacts): string[] {
  return command.commands.map(({ path }) => path.at(-1)!);
}

function longs(options: readonly OptionFacts[]): string[] {
  return options.map(({ long }) => long);
}

/** Path as the case statements below have it: `config print` for `kreplay config print`. */
function formatPath({ path }: CommandFacts): string {
  return path.join(' ');
}

/** Quotes a text in single quotes, as all three shells read them. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export function bashCompletion(root: CommandFacts): string {
  const commands = [...everyCommand(root)];
  const words = commands.map(
    (command) =>
      `\t\t${quoted(formatPath(command))}) words=${quoted([...names(command), ...longs(command.options)].join(' '))} ;;`,
  );
  const values = commands.flatMap((command) =>
    command.options
      .filter(({ takesValue }) => takesValue)
      .map((option) => {
        const choices = `COMPREPLY=($(compgen -W ${quoted(option.choices.join(' '))} -- "$current"))`;
        const found = isFile(option) ? 'COMPREPLY=($(compgen -f -- "$current"))' : choices;
        return `\t\t${quoted(`${formatPath(command)} ${option.long}`)}) ${found}; return ;;`;
      }),
  );
  const paths = commands.filter(({ path }) => path.length > 0).map((command) => quoted(formatPath(command)));
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

export function fishCompletion(root: CommandFacts): string {
  const lines = [...everyCommand(root)].flatMap((command) => {
    const condition = `-n ${quoted(fishCondition(command))}`;
    const below = command.commands.map(
      ({ path, description }) =>
        `complete -c kreplay ${condition} -a ${path.at(-1)} -d ${quoted(firstLine(description))}`,
    );
    const options = command.options.map((option) => `complete -c kreplay ${condition} ${fishOption(option)}`);
    return [...below, ...options];
  });
  return `${BANNER}\ncomplete -c kreplay -f\n${lines.join('\n')}\n`;
}

function fishCondition({ path, commands }: CommandFacts): string {
  if (path.length === 0) return '__fish_use_subcommand';
  const below = commands.map((one) => one.path.at(-1));
  const not = below.length > 0 ? `; and not __fish_seen_subcommand_from ${below.join(' ')}` : '';
  return `${path.map((name) => `__fish_seen_subcommand_from ${name}`).join('; and ')}${not}`;
}

function fishOption(option: OptionFacts): string {
  const value =
    option.choices.length > 0 ? ` -x -a ${quoted(option.choices.join(' '))}` : isFile(option) ? ' -r -F' : ' -x';
  return `-l ${option.long.slice(2)}${option.takesValue ? value : ''} -d ${quoted(firstLine(option.description))}`;
}

export function zshCompletion(root: CommandFacts): string {
  const functions = [...everyCommand(root)].map((command) => zshFunction(command));
  return `#compdef kreplay\n${BANNER}\n\n${functions.join('\n')}\n_kreplay "$@"\n`;
}

function zshName({ path }: CommandFacts): string {
  return ['_kreplay', ...path].join('_');
}

function zshFunction(command: CommandFacts): string {
  const specs = command.options.map((option) => `\t\t${quoted(zshOption(option))}`);
  if (command.commands.length === 0)
    return `${zshName(command)}() {\n\t_arguments \\\n${[...specs, "\t\t'*:file:_files'"].join(' \\\n')}\n}\n`;
  const listed = command.commands.map(
    ({ path, description }) => `\t\t${quoted(`${path.at(-1)}:${firstLine(description)}`)}`,
  );
  const calls = command.commands.map((below) => `\t\t${below.path.at(-1)}) ${zshName(below)} ;;`);
  return `${zshName(command)}() {
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

function zshOption(option: OptionFacts): string {
  const description = firstLine(option.description).replaceAll(/[[\]\\:]/g, '\\$&');
  const values = option.choices.length > 0 ? `(${option.choices.join(' ')})` : isFile(option) ? '_files' : ' ';
  return `${option.isList ? '*' : ''}${option.long}[${description}]${option.takesValue ? `:${option.argument}:${values}` : ''}`;
}

function firstLine(text: string): string {
  return text.split('\n')[0]!;
}
