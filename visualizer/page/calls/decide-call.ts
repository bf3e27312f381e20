import { canonicalJson, omitUndefined } from '../../../protocol/json.ts';
import type { Act } from '../commands/act.ts';
import { makeAction, makePanels } from '../panes/panels.ts';
import { h } from '../render/element.ts';
import type { JsonCall } from '../runs-api.ts';
import { editableJson, makeJsonField } from './json-field.ts';

/**
 * The forms to decide about a gated call. Decisions carry the digest of the call that is shown. Errors appear in
 * `problem`, which outlives the form.
 */
export function makeApproval(call: JsonCall, act: Act, problem: HTMLElement): HTMLElement {
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
    return makeForm([field.element], 'Approve with changes', problem, async () => {
      const input = field.read();
      if ('problem' in input) return input.problem;
      if (canonicalJson(input.value) === canonicalJson(call.input))
        return 'The input is unchanged. Select Approve to approve it as is.';
      return await act('approve', { callId, digest, input: input.value, ...always() });
    });
  };
  const reject = (): HTMLElement => {
    const reason = h('input', { type: 'text', id: `reason-${callId}`, maxlength: 2_000 });
    const label = h('label', { for: reason.id }, 'Reason (shown to the model)');
    return makeForm([h('div', { class: 'field' }, label, reason)], 'Reject', problem, () => {
      const text = reason.value.trim();
      return act('reject', { callId, digest, ...omitUndefined({ reason: text || undefined }), ...always() });
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
    h('label', { class: 'check' }, sticky, ` Also for later calls of ${name} in this run`),
  );
}

/** The form for the result of a client tool's call. */
export function makeResult(call: JsonCall, act: Act, problem: HTMLElement): HTMLElement {
  return h('div', { class: 'decide' }, makeAnswerForm(call, act, problem));
}

/** The forms to resolve a call in doubt. */
export function makeResolution(call: JsonCall, act: Act, problem: HTMLElement): HTMLElement {
  const { callId } = call;
  const happened = (): HTMLElement => {
    const field = makeJsonField('Its result (JSON)', '{}');
    return makeForm([field.element], 'It happened', problem, async () => {
      const output = field.read();
      return 'problem' in output
        ? output.problem
        : await act('resolve', { callId, happened: true, output: output.value });
    });
  };
  const failed = (): HTMLElement => {
    const reason = h('input', { type: 'text', id: `failed-${callId}`, required: true, maxlength: 2_000 });
    const label = h('label', { for: reason.id }, 'Why it failed (shown to the model)');
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
          'Calls the tool again with the same idempotency key. If the first call happened, only a tool that honours the key prevents a repetition.',
        ),
        h('label', { class: 'check' }, force, ' Even if an earlier attempt may still act'),
      ],
      'Retry',
      problem,
      () => act('resolve', { callId, retry: true, force: force.checked }),
    );
  };
  const panels = [
    { label: 'It happened…', make: happened },
    { label: 'It failed…', make: failed },
    { label: 'Retry…', make: retry },
  ];
  return h('div', { class: 'decide' }, makePanels(panels));
}

function makeAnswerForm(call: JsonCall, act: Act, problem: HTMLElement, bound: object = {}): HTMLElement {
  const field = makeJsonField('Result for the model (JSON)', '{}');
  const isError = h('input', { type: 'checkbox' });
  const error = 'digest' in bound ? null : h('label', { class: 'check' }, isError, ' This is an error');
  return makeForm([field.element, error], 'Answer', problem, async () => {
    const output = field.read();
    if ('problem' in output) return output.problem;
    const { callId } = call;
    return await act('answer', {
      callId,
      output: output.value,
      ...omitUndefined({ isError: isError.checked || undefined }),
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
