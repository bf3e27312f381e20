/** Options of every command that opens a store. */
export type StoreOptions = { db?: string };

/** Options of commands that show a run while it goes on. */
export type ShowOptions = StoreOptions & { json?: boolean; deltas?: boolean };

/** Options of commands that make a run go on. */
export type DriveOptions = ShowOptions & { agent?: string; by?: string; yes?: boolean };
