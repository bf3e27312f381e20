const SHORTEST_SECRET = 6;
const FLAG = /^(--?[\w-]+)(=.*)?$/s;
const SECRET_NAME = /key|token|secret|password|passwd|auth/i;

/** The command line as it may be shown: credentials in URLs and the values of flags such as `--api-key` are masked. */
export function showCommand(command: string, args: readonly string[]): string {
  const shown = args.map((arg, index) => {
    const flag = secretFlag(arg);
    if (flag) return flag[2] === undefined ? arg : `${flag[1]}=***`;
    const follows = secretFlag(args[index - 1] ?? '');
    if (follows && follows[2] === undefined && !arg.startsWith('-')) return '***';
    return maskUrlCredentials(arg);
  });
  return [command, ...shown].join(' ');
}

function secretFlag(arg: string): RegExpExecArray | null {
  const flag = FLAG.exec(arg);
  return flag && SECRET_NAME.test(flag[1] ?? '') ? flag : null;
}

/** Of a longer text no more is read: what is shown of one is far less. */
const LONGEST_READ = 100_000;

/** The beginning of a server's text as an error may show it: masked by `redact` before it is cut to `length` characters. */
export function showText(text: string, length: number, redact: (text: string) => string): string {
  const shown = redact(text.slice(0, LONGEST_READ));
  return shown.length > length ? `${shown.slice(0, length)}…` : shown;
}

/** The text with whatever stands in `env`'s values, and credentials in URLs, masked. */
export function redactText(text: string, env: Readonly<Record<string, string>>): string {
  const secrets = Object.values(env).filter(value => value.length >= SHORTEST_SECRET);
  secrets.sort((a, b) => b.length - a.length);
  return maskUrlCredentials(secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '***'), text));
}

/** Begins at the "://": what stands before it may be as long as the text, and would be read again and again. */
function maskUrlCredentials(text: string): string {
  return text.replace(/:\/\/[^\s/@]+@/g, '://***@');
}
