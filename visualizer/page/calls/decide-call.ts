import { canonicalJson } from '../../../protocol/json.ts';
import type { Act } from '../commands/act.ts';
import { makeAction, makePanels } from '../panes/panels.ts';
import { h } from '../render/element.ts';
import type { OpenCall } from '../runs-api.ts';
import { editableJson, makeJsonField } from './json-field.ts';

/**
 * What a person can do about a call that waits for a decision, bound to the call that is shown by its digest.
 * A refusal is said in `problem`, which outlives the form.
 */
export function makeApproval(call: OpenCall, act: Act, problem: HTMLElement): HTMLElement {
  const { callId, digest, name } = call;
  const sticky = h('input', { type: 'checkbox' });
  const always = (): object => (sticky.checked ? { sticky: true } : {});
  const approve = h('button', { type: 'button', class: 'primary' }, 'Approve');
  approve.addEventListener(
    'click',
    makeAction(approve, problem, () => act('approve', { callId, digest, ...always() })),
  );

  const edit = (): HTMLElement => {
    const field = makeJsonField('Edited input', editableJson(call.input), call.input);
    return makeForm([field.element], 'Approve with this change', problem, async () => {
      const input = field.read();
      if ('problem' in input) return input.problem;
      if (canonicalJson(input.value) === canonicalJson(call.input))
        return 'Nothing is changed: approve it as it is.';
      return await act('approve', { callId, digest, input: input.value, ...always() });
    });
  };
  const reject = (): HTMLElement => {
    const reason = h('input', { type: 'text', id: `reason-${callId}`, maxlength: 2_000 });
    const label = h('label', { for: reason.id }, 'Reason (the model reads it)');
    return makeForm([h('div', { class: 'field' }, label, reason)], 'Reject', problem, () => {
      const text = reason.value.trim();
      return act('reject', { callId, digest, ...(text === '' ? {} : { reason: text }), ...always() });
    });
  };
  return h(
    'div',
    { class: 'decide' },
    makePanels(
      [
        { label: 'Edit…', make: edit },
        { label: 'Reject…', make: reject },
        { label: 'Answer instead…', make: () => makeAnswerForm(call, act, problem, { digest }) },
      ],
      [approve],
    ),
    h('label', { class: 'check' }, sticky, ` and for later calls of ${name} in this run`),
  );
}

/** For a call that the client runs: its result comes from here. */
export function makeResult(call: OpenCall, act: Act, problem: HTMLElement): HTMLElement {
  return h('div', { class: 'decide' }, makeAnswerForm(call, act, problem));
}

/** For a call nobody knows the outcome of. */
export function makeResolution(call: OpenCall, act: Act, problem: HTMLElement): HTMLElement {
  const { callId } = call;
  const happened = (): HTMLElement => {
    const field = makeJsonField('What it gave (JSON)', '{}');
    return makeForm([field.element], 'It happened', problem, async () => {
      const output = field.read();
      return 'problem' in output
        ? output.problem
        : await act('resolve', { callId, happened: true, output: output.value });
    });
  };
  const failed = (): HTMLElement => {
    const reason = h('input', { type: 'text', id: `failed-${callId}`, required: true, maxlength: 2_000 });
    const label = h('label', { for: reason.id }, 'Why it failed (the model reads it)');
    return makeForm([h('div', { class: 'field' }, label, reason)], 'It failed', problem, () =>
      act('resolve', { callId, failed: reason.value.trim() }),
    );
  };
  const retry = (): HTMLElement => {
    const force = h('input', { type: 'checkbox' });
    return makeForm(
      [
        h(
          'p',
          {},
          'The tool is called again, with the same idempotency key. If it did happen, only that key prevents a second time.',
        ),
        h('label', { class: 'check' }, force, ' even if an earlier attempt may still act'),
      ],
      'Try again',
      problem,
      () => act('resolve', { callId, retry: true, force: force.checked }),
    );
  };
  const panels = [
    { label: 'It happened…', make: happened },
    { label: 'It failed…', make: failed },
    { label: 'Try again…', make: retry },
  ];
  return h('div', { class: 'decide' }, makePanels(panels));
}

function makeAnswerForm(call: OpenCall, act: Act, problem: HTMLElement, bound: object = {}): HTMLElement {
  const field = makeJsonField('Result the model gets (JSON)', '{}');
  const isError = h('input', { type: 'checkbox' });
  const error = 'digest' in bound ? null : h('label', { class: 'check' }, isError, ' this is an error');
  return makeForm([field.element, error], 'Answer', problem, async () => {
    const output = field.read();
    if ('problem' in output) return output.problem;
    const { callId } = call;
    return await act('answer', {
      callId,
      output: output.value,
      ...(isError.checked ? { isError: true } : {}),
      ...bound,
    });
  });
}

function makeForm(
  content: readonly (HTMLElement | null)[],
  label: string,
  problem: HTMLElement,
  run: () => Promise<string | null>,
): HTMLElement {
  const submit = h('button', { class: 'primary' }, label);
  const send = makeAction(submit, problem, run);
  return h(
    'form',
    {
      onsubmit: event => {
        event.preventDefault();
        void send();
      },
    },
    ...content,
    submit,
  );
}
