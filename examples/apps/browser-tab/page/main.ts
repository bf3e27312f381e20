/** The page: shows the notes, the state of the run, its calls and its answer, and sends decisions to the actor. */
import type { AgentMachine, Call } from 'agentchart/machine';
import type { Actor, StateValue } from 'xstate';
import { restoreRun, startRun } from './agent.ts';
import { listNotes } from './notes.ts';

element('ask').addEventListener('submit', event => {
  event.preventDefault();
  const field = document.querySelector<HTMLInputElement>('#text');
  if (field === null) return;
  element('answer').textContent = '';
  show(startRun(field.value, addText));
  field.value = '';
});

const restored = restoreRun(addText);
if (restored !== undefined) show(restored);
showNotes();

function addText(piece: string): void {
  element('answer').append(piece);
}

/** Starts the actor, and shows what it does until it ends. */
function show(actor: Actor<AgentMachine>): void {
  actor.subscribe(({ value, context, output }) => {
    element('state').textContent = pathOf(value);
    element('calls').replaceChildren(...context.calls.map(call => describeCall(call, actor)));
    if (output?.status === 'finished') element('answer').textContent = output.text;
    if (output?.status === 'failed') element('answer').textContent = output.error.message;
    showNotes();
  });
  actor.start();
}

/** A state of the chart as a path, such as `turn.planning`. */
function pathOf(value: StateValue): string {
  if (typeof value === 'string') return value;
  return Object.entries(value)
    .map(([name, inner]) => (inner === undefined ? name : `${name}.${pathOf(inner)}`))
    .join(' ');
}

function describeCall(call: Call, actor: Actor<AgentMachine>): HTMLElement {
  const item = document.createElement('li');
  item.textContent = `${call.name} ${JSON.stringify(call.input)}: ${call.status} `;
  if (call.status !== 'gated') return item;
  const { callId, digest } = call;
  const decide = (decision: { type: 'approve' } | { type: 'reject'; reason: string }) =>
    actor.send({ type: 'approval.decided', at: Date.now(), callId, digest, decision });
  item.append(
    button('Approve', () => decide({ type: 'approve' })),
    button('Reject', () => decide({ type: 'reject', reason: 'The user said no.' })),
  );
  return item;
}

function showNotes(): void {
  const items = listNotes().map(({ text }) => {
    const item = document.createElement('li');
    item.textContent = text;
    return item;
  });
  element('notes').replaceChildren(...items);
}

function button(name: string, onClick: () => void): HTMLButtonElement {
  const made = document.createElement('button');
  made.textContent = name;
  made.addEventListener('click', onClick);
  return made;
}

function element(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`The page has no element "${id}".`);
  return found;
}
