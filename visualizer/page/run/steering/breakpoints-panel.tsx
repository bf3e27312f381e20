import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { Breakpoint } from '../../../../protocol/debugger/breakpoint.ts';
import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import type { JsonValue } from '../../../../protocol/json.ts';
import { showSafely } from '../../render/show-safely.ts';
import {
  Check,
  Choice,
  dropDrafts,
  keepDraft,
  readDraft,
  readJson,
  TextField,
} from '../../ui/draft-field.tsx';
import { Panels } from '../../ui/panels.tsx';
import { ActionButton, Form } from '../../ui/two-presses.tsx';
import { type Desk, useDesk } from '../desk.ts';
import {
  addBreakpoint,
  BREAK_ACTIONS,
  type BreakAction,
  breakpointsOf,
  type Chosen,
  heldAt,
  keepBreakpoints,
  runTo,
  toolNames,
} from './breakpoints.ts';

const ADD = 'Add a breakpoint…';

/** The label of the open panel: the editor is open where the desk has what it starts with. */
const openOf = ({ breaking }: Desk) => ({
  get value() {
    return breaking.value === null ? null : ADD;
  },
  set value(label) {
    breaking.value = label === null ? null : {};
  },
  peek: () => (breaking.peek() === null ? null : ADD),
});

/** The run's breakpoints, with what operators can do with them. */
export function Breakpoints() {
  const desk = useDesk();
  const { breaking, isSteered } = desk;
  const list = breakpointsOf(desk);
  const holding = heldAt(desk)?.by;
  if (list.length === 0 && !isSteered) return null;
  const start = breaking.value;
  const draftKey = `${desk.model.runId}/break ${JSON.stringify(start)}`;
  const make = () =>
    start === null ? null : <BreakpointEditor key={draftKey} start={start} draftKey={draftKey} />;
  return (
    <section class="breakpoints" aria-label="Breakpoints">
      <h2>
        Breakpoints
        {isSteered && list.length > 1 ? (
          <ActionButton class="quiet" act={() => keepBreakpoints(desk, () => false)}>
            Clear all
          </ActionButton>
        ) : null}
      </h2>
      <ul>
        {list.map(breakpoint => (
          <li key={breakpoint.id} class={breakpoint === holding ? 'holding' : ''}>
            <bdi>{showSafely(describeBreakpoint(breakpoint))}</bdi>
            {isSteered ? (
              <ActionButton class="quiet" act={() => keepBreakpoints(desk, id => id !== breakpoint.id)}>
                Remove<span class="spoken"> {showSafely(describeBreakpoint(breakpoint))}</span>
              </ActionButton>
            ) : null}
          </li>
        ))}
      </ul>
      {isSteered ? <Panels panels={[{ label: ADD, draftKey, make }]} open={openOf(desk)} /> : null}
    </section>
  );
}

type Where = NonNullable<Breakpoint['where']>;
type Typed = Record<'next' | 'tool' | 'turn' | 'costOver' | 'path' | 'op' | 'value', string> & {
  once: boolean;
};

const OPERATORS: readonly Where['op'][] = ['>', '>=', '<', '<=', '=', '!='];

/** Adds a breakpoint, or runs a held run up to it. What was typed over `start` is kept over a reload. */
function BreakpointEditor({ start, draftKey }: { start: Chosen; draftKey: string }) {
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
          <Labelled
            label="Before"
            value={next}
            options={[['', 'any action that spends'], ...BREAK_ACTIONS]}
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
          <Labelled label="Is" value={op} options={OPERATORS} onChoose={chosen => change({ op: chosen })} />
          <TextField label="Value" mono value={value} onText={text => change({ value: text })} />
          <TextField
            label="Costs over ($)"
            value={costOver}
            problem={problems.costOver}
            onText={text => change({ costOver: text.trim() })}
          />
        </div>
        <Check label="Only once" checked={once} onCheck={isOn => change({ once: isOn })} />
        {heldAt(desk) === null ? null : (
          <ActionButton act={() => take(chosen => runTo(desk, chosen))}>Run to here</ActionButton>
        )}
      </Form>
    </div>
  );
}

function Labelled({ label, ...rest }: { label: string } & Parameters<typeof Choice>[0]) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <Choice id={id} {...rest} />
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
