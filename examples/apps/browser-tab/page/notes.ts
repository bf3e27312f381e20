import * as z from 'zod';

// The notes of this browser, in its local storage. Adding or deleting a note again changes nothing.

const note = z.object({ id: z.string(), text: z.string() });
export type Note = z.infer<typeof note>;

const NAME = 'notes';

/** Returns all notes, in the order of their last addition. */
export function listNotes(): Note[] {
  return z.array(note).parse(JSON.parse(localStorage.getItem(NAME) ?? '[]'));
}

/** Adds a note, or replaces the one with the same id. */
export function addNote(id: string, text: string): Note {
  const others = listNotes().filter(each => each.id !== id);
  localStorage.setItem(NAME, JSON.stringify([...others, { id, text }]));
  return { id, text };
}

/** Deletes a note; an unknown id is ignored. */
export function deleteNote(id: string): void {
  localStorage.setItem(NAME, JSON.stringify(listNotes().filter(each => each.id !== id)));
}
