import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { Breakpoint } from '../../../../protocol/debugger/breakpoint.ts';
import { describeBreakpoint } from '../../../../protocol/debugger/describe-breakpoint.ts';
import type { JsonValue } from '../../../../protocol/json.ts';
import { showSafe } from '../../render/format.ts';
import {
  Check,
  Choice,
  dropDrafts,
  keepDraft,
  Labelled,
  readDraft,
  readDraftJson,
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

export function Breakpoints() {
  const desk = useDesk();
  const { breaking, isSteered } = desk;
  const list = breakpointsOf(desk);
  const holding = heldAt(desk)?.by;
  if (list.length === 0 && !isSteered) return null;
  const start = breaking.value;
  const draftKey = `${desk.model.runId}/break ${JSON.stringify(start)}`;
  const form = start && <BreakpointEditor start={start} draftKey={draftKey} />;
  const keep = (keeps: (id: string) => boolean) => () => keepBreakpoints(desk, keeps);
  return (
    <section class="breakpoints" aria-label="Breakpoints">
      <h2>
        Breakpoints
        {isSteered && list.length > 1 && (
          <ActionButton class="quiet" label="Clear all" act={keep(() => false)} />
        )}
      </h2>
      <ul>
        {list.map(breakpoint => {
          const words = showSafe(describeBreakpoint(breakpoint));
          const remove = (
            <>
              Remove<span class="spoken"> {words}</span>
            </>
          );
          return (
            <li key={breakpoint.id} class={breakpoint === holding ? 'holding' : ''}>
              <bdi>{words}</bdi>
              {isSteered && (
                <ActionButton class="quiet" label={remove} act={keep(id => id !== breakpoint.id)} />
              )}
            </li>
          );
        })}
      </ul>
      {isSteered && <Panels panels={[{ label: ADD, draftKey, form }]} open={openOf(desk)} />}
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
  const id = useId();
  const turn = typed.value.turn.trim();
  const [costOver, path, value] = [typed.value.costOver.trim(), typed.value.path.trim(), typed.value.value];
  const change = (changed: Partial<Typed>): void => {
    typed.value = { ...typed.peek(), ...changed };
    keepDraft(draftKey, JSON.stringify(typed.peek()));
  };
  const problems: { readonly [Name in keyof Typed]?: string } = {
    turn: turn === '' || /^[1-9]\d*$/.test(turn) ? '' : 'Expected a whole number from 1.',
    costOver: costOver === '' || Number(costOver) >= 0 ? '' : 'Expected a number of at least 0.',
    path: value === '' || /^input(\.|$)/.test(path) ? '' : 'Expected a path such as input.cents.',
  };
  const take = async (send: (chosen: Chosen) => Promise<string | null>): Promise<null> => {
    if (Object.values(problems).some(text => text !== '')) return null;
    const refusal = await send(chosenOf(typed.peek()));
    problem.value = refusal ?? '';
    if (refusal === null) {
      dropDrafts(draftKey);
      desk.breaking.value = null;
    } else desk.notice.value = null;
    return null;
  };
  const field = (name: Exclude<keyof Typed, 'once'>, label: string, looks: object = { mono: true }) => (
    <TextField
      label={label}
      {...looks}
      value={typed.value[name]}
      problem={problems[name] ?? ''}
      onText={text => change({ [name]: text })}
    />
  );
  const choice = (name: 'next' | 'op', label: string, options: Options) => (
    <Labelled id={`${id}-${name}`} label={label}>
      <Choice
        id={`${id}-${name}`}
        value={typed.value[name]}
        options={options}
        onChoose={chosen => change({ [name]: chosen })}
      />
    </Labelled>
  );
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
          {choice('next', 'Before', [['', 'any action that spends'], ...BREAK_ACTIONS])}
          {field('tool', 'Tool', { mono: true, options: toolNames(desk) })}
          {field('turn', 'Turn', {})}
          {field('path', 'Where', { mono: true, placeholder: 'input.cents' })}
          {choice('op', 'Is', OPERATORS)}
          {field('value', 'Value')}
          {field('costOver', 'Costs over ($)', {})}
        </div>
        <Check label="Only once" checked={typed.value.once} onCheck={once => change({ once })} />
        {heldAt(desk) !== null && (
          <ActionButton label="Run to here" act={() => take(chosen => runTo(desk, chosen))} />
        )}
      </Form>
    </div>
  );
}

type Options = Parameters<typeof Choice>[0]['options'];

function typedOf({ next, tool = '', turn, costOver, where, once }: Chosen): Typed {
  const { path = '', op = '>', value = '' } = where ?? {};
  const numbers = { turn: `${turn ?? ''}`, costOver: `${costOver ?? ''}`, value: `${value}` };
  return { next: next ?? '', tool, path, op, once: once === true, ...numbers };
}

function chosenOf({ next, tool, turn, costOver, path, op, value, once }: Typed): Chosen {
  return {
    ...(next !== '' && { next: next as BreakAction }),
    ...(tool !== '' && { tool }),
    ...(turn.trim() !== '' && { turn: Number(turn) }),
    ...(costOver.trim() !== '' && { costOver: Number(costOver) }),
    ...(value !== '' && { where: { path: path.trim(), op: op as Where['op'], value: readScalar(value) } }),
    ...(once && { once: true }),
  };
}

/** A number, `true`, `false`, `null` or a text in quotes as such; anything else is a text. */
function readScalar(text: string): Where['value'] {
  const read = readDraftJson(text);
  const value: JsonValue = 'problem' in read ? text : read.value;
  return typeof value === 'object' && value !== null ? text : value;
}
