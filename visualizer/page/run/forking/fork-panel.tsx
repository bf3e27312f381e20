import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type JsonValue, omitUndefined } from '../../../../protocol/json.ts';
import { type Answer, commandFor } from '../../../../protocol/open/answer.ts';
import type { AgentView } from '../../../../protocol/run-view.ts';
import { navigate } from '../../app/router.ts';
import { type RunView, request, type StreamedEvent } from '../../data/request.ts';
import { describeRefusal, sendOnce } from '../../data/send-command.ts';
import type { CallRecord } from '../../model/call-facts.ts';
import { shorten } from '../../render/show-safely.ts';
import { DraftField, dropDrafts, InputEditor, JsonField, readJson, useDraft } from '../../ui/draft-field.tsx';
import { Panels } from '../../ui/panels.tsx';
import { ActionButton, Form } from '../../ui/two-presses.tsx';
import { useDesk } from '../desk.ts';
import { ReplyEditor } from '../edits/reply-editor.tsx';
import { toolNames } from '../steering/breakpoints.ts';

type Commands = readonly object[];
/** Where a fork begins and what is different in it. */
type Fork = { at: number; message?: string; commands?: Commands };
type Send = (fork: Fork) => Promise<string | null>;

/**
 * Creates a fork at the entry, with one change, and opens it. A change of a call forks at the entry of that call. Escape
 * closes the open form, then the panel: what was typed stays for the next time.
 */
export function ForkPanel({ at, onLeave }: { at: number; onLeave(): void }) {
  const { model } = useDesk();
  const { runId } = model;
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    place.current?.scrollIntoView({ block: 'nearest' });
    place.current?.querySelector('input')?.focus();
  }, []);
  const replays = useSignal(false);
  const holds = useSignal(false);
  const open = useSignal<string | null>(null);
  const chosen = useSignal('');
  const problem = useSignal('');
  const draftKey = `${runId}/fork `;
  const send: Send = async fork => {
    try {
      const made = await sendOnce<RunView>(`/runs/${encodeURIComponent(runId)}/fork`, {
        ...fork,
        ...(chosen.peek() !== '' && { model: chosen.peek() }),
        replayTools: replays.peek(),
        paused: holds.peek(),
      });
      dropDrafts(draftKey);
      navigate(`/runs/${encodeURIComponent(made.runId)}`);
      return null;
    } catch (error) {
      return describeRefusal(error);
    }
  };
  const plain = async (): Promise<void> => {
    problem.value = (await send({ at })) ?? '';
  };
  const calls = [...model.story.calls.values()].filter(({ seq }) => seq <= at);
  const reply = lastReply(at, seq => model.entry(seq));
  const shared = { at, send, draftKey };
  return (
    <section
      class="fork-panel"
      ref={place}
      aria-label={`Fork at entry ${at}`}
      onKeyDown={event => {
        if (event.key === 'Escape' && !event.defaultPrevented) onLeave();
      }}
    >
      <p class="muted">
        A fork is a new run from a copy of this journal. What it still does is real: its tools run.
      </p>
      <label>
        <input type="checkbox" checked={replays.value} onChange={toggle(replays)} /> Replay tools: take
        results from this run, execute none
      </label>
      <label>
        <input type="checkbox" checked={holds.value} onChange={toggle(holds)} /> Hold the fork at its start
      </label>
      <ModelChoice chosen={chosen} />
      <Panels
        open={open}
        panels={[
          ...(calls.length === 0
            ? []
            : [
                {
                  label: 'Change a call…',
                  draftKey: `${draftKey}call`,
                  make: () => <CallForm {...shared} calls={calls} />,
                },
              ]),
          ...(reply === null
            ? []
            : [
                {
                  label: 'Edit reply…',
                  draftKey: `${draftKey}reply`,
                  make: () => <ReplyForm {...shared} reply={reply} />,
                },
              ]),
          {
            label: 'Add a message…',
            draftKey: `${draftKey}message`,
            make: () => <MessageForm {...shared} />,
          },
          { label: 'Parameters…', draftKey: `${draftKey}params`, make: () => <ParamsForm {...shared} /> },
        ]}
      >
        <ActionButton act={plain}>Fork without a change</ActionButton>
      </Panels>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </section>
  );
}

/** The model of the fork, if the server offers more than one for its agent. */
function ModelChoice({ chosen }: { chosen: Signal<string> }) {
  const { model } = useDesk();
  const models = useSignal<readonly string[]>([]);
  const started = model.entry(1);
  const agent = started?.type === 'run.started' ? started.agent.name : '';
  useEffect(() => {
    // Without an answer, the fork uses the model of the run.
    request<AgentView>(`/agents/${encodeURIComponent(agent)}`).then(
      view => (models.value = view.forkModels),
      () => {},
    );
  }, [agent, models]);
  if (models.value.length < 2) return null;
  return (
    <label>
      Model{' '}
      <select value={chosen.value} onChange={event => (chosen.value = event.currentTarget.value)}>
        <option value="">as this run</option>
        {models.value.map(name => (
          <option key={name} value={name}>
            {shorten(name, 80)}
          </option>
        ))}
      </select>
    </label>
  );
}

const toggle = (flag: { value: boolean }) => (event: { currentTarget: HTMLInputElement }) => {
  flag.value = event.currentTarget.checked;
};

type Turn = Extract<StreamedEvent, { type: 'turn.completed' }>;

function lastReply(at: number, entry: (seq: number) => StreamedEvent | undefined): Turn | null {
  for (let seq = at; seq > 0; seq -= 1) {
    const event = entry(seq);
    if (event?.type === 'turn.completed') return event;
  }
  return null;
}

type FormProps = { at: number; send: Send; draftKey: string };

/** One call: another input, another decision, or another result. */
function CallForm({ send, draftKey, calls }: FormProps & { calls: readonly CallRecord[] }) {
  const chosen = useSignal(preferred(calls));
  const record = calls.find(({ call }) => call.callId === chosen.value) ?? calls[0];
  if (record === undefined) return null;
  const { call, seq } = record;
  const { callId, name, gate } = call;
  const key = `${draftKey}call ${callId}`;
  const change = (input: JsonValue) =>
    gate
      ? commandFor({ kind: 'approval', callId }, { type: 'approve', input })
      : { type: 'edit-call', callId, input };
  return (
    <div class="fork-call">
      <label>
        Call{' '}
        <select value={callId} onChange={event => (chosen.value = event.currentTarget.value)}>
          {calls.map(one => (
            <option key={one.call.callId} value={one.call.callId}>
              {shorten(`${one.call.name}, entry ${one.seq}`, 80)}
            </option>
          ))}
        </select>
      </label>
      <p class="muted">
        The fork begins at entry {seq}, where the call was made; with another result, where it was started.
      </p>
      <InputEditor
        key={key}
        label={`Input of ${shorten(name, 80)}`}
        submit={gate ? 'Fork and approve this input' : 'Fork with this input'}
        unchanged="The input is unchanged."
        draftKey={`${key} input`}
        input={call.input}
        send={input => send({ at: seq, commands: [change(input)] })}
      />
      {gate ? (
        <RejectForm key={`${key} reject`} send={send} record={record} draftKey={`${key} reason`} />
      ) : null}
      <ResultForm key={`${key} result`} send={send} record={record} draftKey={`${key} result`} />
    </div>
  );
}

/** The last call that needed a decision, or else the last. */
function preferred(calls: readonly CallRecord[]): string {
  return (calls.findLast(({ call }) => call.gate) ?? calls.at(-1))?.call.callId ?? '';
}

type OfCall = { send: Send; record: CallRecord; draftKey: string };

function RejectForm({ send, record, draftKey }: OfCall) {
  const reason = useDraft(draftKey);
  const problem = useSignal('');
  const { callId } = record.call;
  const run = async (): Promise<void> => {
    const answer: Answer = { type: 'reject', ...(reason.value !== '' && { reason: reason.value }) };
    const reject = commandFor({ kind: 'approval', callId }, answer);
    problem.value = (await send({ at: record.seq, commands: [reject] })) ?? '';
  };
  return (
    <Form label="Fork and reject" run={run} problem={problem.value}>
      <DraftField label="Reason, which the model reads" draft={reason} draftKey={draftKey} />
    </Form>
  );
}

/** A call that had started is in doubt where it started; another one is answered instead of decided. */
function ResultForm({ send, record, draftKey }: OfCall) {
  const output = useDraft(draftKey, '');
  const problem = useSignal('');
  const { callId } = record.call;
  const started = record.told.find(({ type }) => type === 'call.started')?.seq;
  const run = async (): Promise<void> => {
    const read = readJson(output.value);
    if ('problem' in read) return;
    const given = { output: read.value };
    const command =
      started === undefined
        ? commandFor({ kind: 'result', callId }, { type: 'result', ...given })
        : commandFor({ kind: 'doubt', callId }, { type: 'happened', ...given });
    problem.value = (await send({ at: started ?? record.seq, commands: [command] })) ?? '';
  };
  return (
    <Form label="Fork with this result" run={run} problem={problem.value}>
      <JsonField label="Another result, as JSON" draft={output} draftKey={draftKey} />
    </Form>
  );
}

function ReplyForm({ send, draftKey, reply }: FormProps & { reply: Turn }) {
  const desk = useDesk();
  const { text, calls, seq } = reply;
  return (
    <ReplyEditor
      submit="Fork with this reply"
      draftKey={`${draftKey}reply ${seq}`}
      reply={{ text, calls }}
      tools={toolNames(desk)}
      send={edit => send({ at: seq, commands: [{ type: 'edit-turn', ...omitUndefined(edit) }] })}
    />
  );
}

function MessageForm({ at, send, draftKey }: FormProps) {
  const message = useDraft(`${draftKey}message`);
  const problem = useSignal('');
  const run = async (): Promise<void> => {
    problem.value = (await send({ at, message: message.value })) ?? '';
  };
  return (
    <Form label="Fork with this message" run={run} problem={problem.value}>
      <DraftField
        label="Message to the fork"
        rows={3}
        required
        draft={message}
        draftKey={`${draftKey}message`}
      />
    </Form>
  );
}

function ParamsForm({ at, send, draftKey }: FormProps) {
  const params = useDraft(`${draftKey}params`, '{ "settings": { "temperature": 0 } }');
  const problem = useSignal('');
  const run = async (): Promise<void> => {
    const read = readJson(params.value);
    if ('problem' in read) return;
    problem.value = (await send({ at, commands: [{ type: 'set-params', params: read.value }] })) ?? '';
  };
  return (
    <Form label="Fork with these parameters" run={run} problem={problem.value}>
      <JsonField label="Parameters of the next turns" draft={params} draftKey={`${draftKey}params`} />
    </Form>
  );
}
