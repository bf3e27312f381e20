const PREFIX = 'agentchart.draft.';

/** What a person typed and has not sent; it outlives a reload. `key` names the field, such as `RUN/CALL/edit`. */
export function readDraft(key: string): string | null {
  return sessionStorage.getItem(PREFIX + key);
}

/** Keeps a draft. */
export function keepDraft(key: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // A full storage keeps no drafts; the field still has its text.
  }
}

/** Forgets the drafts whose keys begin with `key`. */
export function dropDrafts(key: string): void {
  for (const name of Object.keys(sessionStorage))
    if (name.startsWith(PREFIX + key)) sessionStorage.removeItem(name);
}
