import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { Breakpoint } from '../../../../protocol/debugger/breakpoint.ts';
import type { JsonValue } from '../../../../protocol/json.ts';
import { dropDrafts, keepDraft, readDraft } from '../../data/drafts.ts';
import { ActionButton } from '../../ui/action-button.tsx';
import { readJson, TextField } from '../../ui/draft-field.tsx';
import { Form } from '../../ui/form.tsx';
import { useDesk } from '../desk.ts';
import { addBreakpoint, BREAK_ACTIONS, type BreakAction, type Chosen, heldAt, runTo } from './breakpoints.ts';
import { toolNames } from './tool-names.ts';

type Where = NonNullable<Breakpoint['where']>;
type Typed = Record<'next' | 'tool' | 'turn' | 'costOver' | 'path' | 'op' | 'value', string> & {
  once: boolean;
};

const OPERATORS: readonly Where['op'][] = ['>', '>=', '<', '<=', '=', '!='];

/** Adds a breakpoint, or runs a held run up to it. What was typed over `start` is kept over a reload. */
export function BreakpointEditor({ start, draftKey }: { start: Chosen; draftKey: string }) {
  const desk = useDesk();
  const place = useRef<HTMLDivElement>(null);
  const typed = useSignal<Typed>({ ...typedOf(start), ...JSON.parse(readDraft(draftKey) ?? '{}') });
  const problem = useSignal('');
  useEffect(() => {
    place.current?.scrollIntoView({ block: 'nearest' });
    place.current?.querySelector('select')?.focus();
  }, []);
  const { next, tool, turn, costOver, path, op, value, once } = typed.value;
  const change = (changed: Partial<Typed>): void => {
    typed.value = { ...typed.peek(), ...changed };
    keepDraft(draftKey, JSON.stringify(typed.peek()));
  };
  const problems = {
    turn: turn === '' || /^[1-9]\d*$/.test(turn) ? '' : 'Expected a whole number from 1.',
    costOver: costOver === '' || Number(costOver) >= 0 ? '' : 'Expected a number of at least 0.',
    path: value === '' || /^input(\.|$)/.test(path) ? '' : 'Expected a path such as input.cents.',
  };
  const take = async (send: (chosen: Chosen) => Promise<string | null>): Promise<void> => {
    if (Object.values(problems).some(text => text !== '')) return;
    const refusal = await send(chosenOf(typed.peek()));
    problem.value = refusal ?? '';
    if (refusal === null) {
      dropDrafts(draftKey);
      desk.breaking.value = null;
    } else desk.notice.value = null;
  };
  return (
    <div ref={place}>
      <Form
        label="Add breakpoint"
        run={() => take(chosen => addBreakpoint(desk, chosen))}
        problem={problem.value}
      >
        <p class="muted">
          Holds the run before the next action that fits all of these. An empty field fits any.
        </p>
        <div class="break-fields">
          <Select
            label="Before"
            value={next}
            options={['', ...BREAK_ACTIONS]}
            onChoose={chosen => change({ next: chosen })}
          />
          <TextField
            label="Tool"
            mono
            options={toolNames(desk)}
            value={tool}
            onText={text => change({ tool: text })}
          />
          <TextField
            label="Turn"
            value={turn}
            problem={problems.turn}
            onText={text => change({ turn: text.trim() })}
          />
          <TextField
            label="Where"
            mono
            placeholder="input.cents"
            value={path}
            problem={problems.path}
            onText={text => change({ path: text.trim() })}
          />
          <Select label="Is" value={op} options={OPERATORS} onChoose={chosen => change({ op: chosen })} />
          <TextField label="Value" mono value={value} onText={text => change({ value: text })} />
          <TextField
            label="Costs over ($)"
            value={costOver}
            problem={problems.costOver}
            onText={text => change({ costOver: text.trim() })}
          />
        </div>
        <label class="check">
          <input
            type="checkbox"
            checked={once}
            onChange={event => change({ once: event.currentTarget.checked })}
          />
          Only once
        </label>
        {heldAt(desk) === null ? null : (
          <ActionButton act={() => take(chosen => runTo(desk, chosen))}>Run to here</ActionButton>
        )}
      </Form>
    </div>
  );
}

type SelectProps = {
  label: string;
  value: string;
  options: readonly string[];
  onChoose(value: string): void;
};

function Select({ label, value, options, onChoose }: SelectProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={event => onChoose(event.currentTarget.value)}>
        {options.map(option => (
          <option key={option} value={option}>
            {option || 'any action that spends'}
          </option>
        ))}
      </select>
    </div>
  );
}

function typedOf({
  next = '' as BreakAction,
  tool = '',
  turn = '',
  costOver = '',
  where,
  once,
}: Chosen | Empty) {
  const { path = '', op = '>', value = '' } = where ?? {};
  const shown = { turn: `${turn}`, costOver: `${costOver}`, value: `${value}` };
  const typed: Typed = { next, tool, path, op, once: once === true, ...shown };
  return typed;
}
type Empty = { next?: BreakAction; tool?: string; turn?: ''; costOver?: ''; where?: Where; once?: boolean };

function chosenOf({ next, tool, turn, costOver, path, op, value, once }: Typed): Chosen {
  return {
    ...(next === '' ? {} : { next: next as BreakAction }),
    ...(tool === '' ? {} : { tool }),
    ...(turn === '' ? {} : { turn: Number(turn) }),
    ...(costOver === '' ? {} : { costOver: Number(costOver) }),
    ...(value === '' ? {} : { where: { path, op: op as Where['op'], value: readScalar(value) } }),
    ...(once ? { once: true } : {}),
  };
}

/** A number, `true`, `false`, `null` or a text in quotes as such; anything else is a text. */
function readScalar(text: string): Where['value'] {
  const read = readJson(text);
  const value: JsonValue = 'problem' in read ? text : read.value;
  return typeof value === 'object' && value !== null ? text : value;
}
