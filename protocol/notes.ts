/** A text that a model has noted. `bytes`: its size in UTF-8. */
export type Note = { path: string; bytes: number; text: string };

/** What is noted under a label, by path. `runId`: the run that keeps it. `changedAt`: in ms since the epoch. */
export type Notes = { runId: string; changedAt: number; files: Note[] };

/** The ids of the runs that keep notes begin so. */
export const NOTES_ID = 'notes_';
