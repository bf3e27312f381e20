const SHORTEST_SECRET = 6;
const SECRET_FLAG = /^(--?[\w-]*(?:key|token|secret|password|passwd|auth)[\w-]*)(=.*)?$/is;

/** The command line as it may be shown: credentials in URLs and the values of flags such as `--api-key` are masked. */
export function showCommand(command: string, args: readonly string[]): string {
  const shown = args.map((arg, index) => {
    const flag = SECRET_FLAG.exec(arg);
    if (flag) return flag[2] === undefined ? arg : `${flag[1]}=***`;
    const follows = SECRET_FLAG.exec(args[index - 1] ?? '');
    if (follows && follows[2] === undefined && !arg.startsWith('-')) return '***';
    return maskUrlCredentials(arg);
  });
  return [command, ...shown].join(' ');
}

/** The text with whatever stands in `env`'s values, and credentials in URLs, masked. */
export function redactText(text: string, env: Readonly<Record<string, string>>): string {
  const secrets = Object.values(env).filter(value => value.length >= SHORTEST_SECRET);
  secrets.sort((a, b) => b.length - a.length);
  return maskUrlCredentials(secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '***'), text));
}

function maskUrlCredentials(text: string): string {
  return text.replace(/([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, '$1***@');
}
