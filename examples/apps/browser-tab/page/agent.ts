/**
 * The whole loop in the page: the model's turns, the tools and the approvals are an XState actor. Each snapshot is kept
 * in `sessionStorage`, so that a reload of the tab continues the run where it was.
 */
import { openaiChat } from 'agentchart/adapters/openai-chat';
import { type AgentMachine, agentInput, agentMachine, agentServices, tool } from 'agentchart/machine';
import { type Actor, createActor, type Snapshot } from 'xstate';
import * as z from 'zod';
import { addNote, deleteNote, listNotes } from './notes.ts';

const list = tool({
  name: 'list_notes',
  description: 'Lists all notes.',
  input: z.object({}),
  sideEffect: 'none',
  run: () => listNotes(),
});

const add = tool({
  name: 'add_note',
  description: 'Adds a note.',
  input: z.object({ text: z.string() }),
  // The key is the same for each attempt of a call: a call that is repeated after a reload adds no second note.
  sideEffect: 'idempotent',
  run: ({ text }, { key }) => addNote(key, text),
});

const remove = tool({
  name: 'delete_note',
  description: 'Deletes a note by its id.',
  input: z.object({ id: z.string() }),
  approval: true,
  sideEffect: 'idempotent',
  run: ({ id }) => {
    deleteNote(id);
    return 'deleted';
  },
});

const options = {
  name: 'notes',
  instructions: 'You keep the notes of a person. List them before you delete one.',
  // The page has no key: `proxy.ts` adds it, and sets the model.
  model: openaiChat({ model: 'set-by-the-proxy', baseURL: `${location.origin}/v1`, apiKey: 'none' }),
  tools: [list, add, remove],
};

const KEPT = 'notes-run';

/** Starts a run. `onText` receives the answer's pieces as the model writes them. */
export function startRun(text: string, onText: (piece: string) => void): Actor<AgentMachine> {
  const input = agentInput(text, options, { stream: true });
  return keepRun(createActor(provide(onText), { input }));
}

/** Returns the run that was in progress before the page was reloaded, if there is one. Start the actor to continue it. */
export function restoreRun(onText: (piece: string) => void): Actor<AgentMachine> | undefined {
  const kept = sessionStorage.getItem(KEPT);
  if (kept === null) return undefined;
  const snapshot: Snapshot<unknown> = JSON.parse(kept);
  return keepRun(createActor(provide(onText), { snapshot, input: agentInput('', options) }));
}

function provide(onText: (piece: string) => void): AgentMachine {
  const actors = agentServices(options, {
    persist: keep,
    onDelta: delta => {
      if (delta.type === 'text.delta') onText(delta.text);
    },
  });
  return agentMachine.provide({ actors });
}

function keep(snapshot: unknown): void {
  sessionStorage.setItem(KEPT, JSON.stringify(snapshot));
}

function keepRun(actor: Actor<AgentMachine>): Actor<AgentMachine> {
  actor.subscribe(({ status }) => {
    if (status === 'active') keep(actor.getPersistedSnapshot());
    else sessionStorage.removeItem(KEPT);
  });
  return actor;
}
