const PREFIX = 'agentchart.draft.';

/** Returns the unsent text of a field, which is kept over a reload. `key` names the field, such as `RUN/CALL/edit`. */
export function readDraft(key: string): string | null {
  return sessionStorage.getItem(PREFIX + key);
}

/** Keeps a draft. */
export function keepDraft(key: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // If the storage is full, the draft is not saved; the field still has its text.
  }
}

/** Returns the unsent texts of the fields whose keys begin with `key`. */
export function readDrafts(key: string): string[] {
  return Object.keys(sessionStorage).flatMap(name =>
    name.startsWith(PREFIX + key) ? [sessionStorage.getItem(name) ?? ''] : [],
  );
}

/** Whether there is unsent text in fields whose keys begin with `key`. */
export function hasDrafts(key: string): boolean {
  return readDrafts(key).length > 0;
}

/** Forgets the drafts whose keys begin with `key`. */
export function dropDrafts(key: string): void {
  for (const name of Object.keys(sessionStorage))
    if (name.startsWith(PREFIX + key)) sessionStorage.removeItem(name);
}
