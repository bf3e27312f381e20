import type { Context } from 'hono';
import * as z from 'zod';
import { hasLabels, parseLabels } from '../../../protocol/listing/label.ts';
import type { Notes } from '../../../protocol/notes.ts';
import type { Store } from '../../../protocol/store.ts';
import { readNotes } from '../../../tools/notes/folder.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';

export const notesQuery = fields({
  label: z.array(z.string()).length(1).meta({ description: 'NAME=VALUE: whose notes.' }),
});

export const notesSchema = z.object({
  files: z.array(
    z.object({
      path: z.string(),
      bytes: z.number().int().meta({ description: 'The size of the text in UTF-8.' }),
      text: z.string(),
    }),
  ),
  runId: optional(z.string(), 'The run that keeps the notes. Absent if nothing was noted.'),
  changedAt: optional(z.number(), 'In ms since the epoch.'),
}) satisfies z.ZodType<Partial<Notes>>;

/** A caller with labels sees the notes if it sees the run that keeps them, whose one label is the given one. */
export async function sendNotes(
  c: Context<RunsEnv>,
  store: Store,
  { label: [text = ''] }: z.output<typeof notesQuery>,
): Promise<Response> {
  const label = parseLabels([text]);
  const isSeen = hasLabels(label, withLabelsOf(c.get('caller'), label));
  const found: Notes | undefined = isSeen ? await readNotes(store, label) : undefined;
  return c.json<z.output<typeof notesSchema>>(found ?? { files: [] });
}
