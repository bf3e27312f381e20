/** Options of `remoteRun` and `useRun`. */
export type RemoteRunOptions = {
  /** Sent as a bearer token. */
  token?: string | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
};

const NAMES: { readonly [Name in keyof RemoteRunOptions]-?: true } = { token: true, fetch: true };

/** Throws a `TypeError` for an unknown option. A page does not load the names and codes of the engine for it. */
export function refuseUnknownOptions(of: string, options: RemoteRunOptions): void {
  const unknown = Object.keys(options).find(name => !Object.hasOwn(NAMES, name));
  if (unknown !== undefined)
    throw new TypeError(
      `unknown option "${unknown}" of ${of}; expected one of ${Object.keys(NAMES).join(', ')}.`,
    );
}
