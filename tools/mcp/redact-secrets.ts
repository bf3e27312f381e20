const MIN_SECRET_LENGTH = 6;
const FLAG = /^(--?[\w-]+)(=.*)?$/s;
const SECRET_NAME = /key|token|secret|password|passwd|auth/i;

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

/** The maximum length of text that is searched for secrets, in characters; much less of it is shown. */
const MAX_READ = 100_000;

/** Returns the beginning of a server's text for an error: masked by `redact`, then cut to `length` characters. */
export function quoteServerText(text: string, length: number, redact: (text: string) => string): string {
  const shown = redact(text.slice(0, MAX_READ));
  return shown.length > length ? `${shown.slice(0, length)}…` : shown;
}

/** Masks the values of `env` (of 6 characters or more) and credentials in URLs. */
export function maskSecrets(text: string, env: Readonly<Record<string, string>>): string {
  const secrets = Object.values(env).filter(value => value.length >= MIN_SECRET_LENGTH);
  secrets.sort((a, b) => b.length - a.length);
  return maskUrlCredentials(secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '***'), text));
}

/** The pattern starts at "://" to stay linear: a leading scheme would be rescanned from every character. */
function maskUrlCredentials(text: string): string {
  return text.replace(/:\/\/[^\s/@]+@/g, '://***@');
}
