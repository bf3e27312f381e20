import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { AgentView } from '../../../../protocol/agent-view.ts';
import { type JsonValue, omitUndefined } from '../../../../protocol/json.ts';
import { decisionCommand } from '../../../../protocol/open/answer.ts';
import { navigate } from '../../app/router.ts';
import { type RunView, requestServer, runPath } from '../../data/request.ts';
import { problemOf, sendOnce } from '../../data/send-command.ts';
import { useRead } from '../../data/server-watch.ts';
import type { CallRecord } from '../../model/call-facts.ts';
import { formatLine } from '../../render/format.ts';
import { Choice, dropDrafts, Flag, TextForm } from '../../ui/draft-field.tsx';
import { type Panel, Panels } from '../../ui/panels.tsx';
import { ProblemText } from '../../ui/text.tsx';
import { ActionButton } from '../../ui/two-presses.tsx';
import { InputForm } from '../decisions/decision-forms.tsx';
import { rejectionFor } from '../decisions/open-decisions.tsx';
import { useDesk } from '../desk.ts';
import { ReplyEditor } from '../edits/reply-editor.tsx';
import { toolNames } from '../steering/breakpoints.ts';

type Fork = { at: number; message?: string; commands?: readonly object[] };
type Send = (fork: Fork) => Promise<string | null>;

/** Creates a fork with one change and opens it. Escape closes the open form, then the panel, and keeps what was typed. */
export function ForkPanel({ at, onLeave }: { at: number; onLeave(): void }) {
  const desk = useDesk();
  const { model } = desk;
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
  const send: Send = fork =>
    problemOf(async () => {
      const made = await sendOnce<RunView>(`${runPath(runId)}/fork`, {
        ...fork,
        ...(chosen.peek() !== '' && { model: chosen.peek() }),
        replayTools: replays.peek(),
        paused: holds.peek(),
      });
      dropDrafts(draftKey);
      navigate(runPath(made.runId));
    });
  const plain = async (): Promise<void> => {
    problem.value = (await send({ at })) ?? '';
  };
  const calls = [...model.story.calls.values()].filter(({ seq }) => seq <= at);
  const entries = Array.from({ length: at }, (_, place) => model.entry(place + 1));
  const reply = entries.findLast(event => event?.type === 'turn.completed');
  const panel = (key: string, label: string, make: (draftKey: string) => ComponentChildren): Panel => {
    const own = `${draftKey}${key}`;
    return { label, draftKey: own, form: make(own) };
  };
  const panels = [
    calls.length > 0 &&
      panel('call', 'Change a call…', own => <CallForms send={send} draftKey={own} calls={calls} />),
    reply !== undefined &&
      panel('reply', 'Edit reply…', own => (
        <ReplyEditor
          submit="Fork with this reply"
          draftKey={`${own} ${reply.seq}`}
          reply={reply}
          tools={toolNames(desk)}
          send={edit => send({ at: reply.seq, commands: [{ type: 'edit-turn', ...omitUndefined(edit) }] })}
        />
      )),
    panel('message', 'Add a message…', own => (
      <TextForm
        label="Fork with this message"
        field="Message to the fork"
        rows={3}
        required
        draftKey={own}
        run={message => send({ at, message })}
      />
    )),
    panel('params', 'Parameters…', own => (
      <TextForm
        json
        label="Fork with these parameters"
        field="Parameters of the next turns"
        start={'{ "settings": { "temperature": 0 } }'}
        draftKey={own}
        run={params => send({ at, commands: [{ type: 'set-params', params }] })}
      />
    )),
  ].filter(one => one !== false);
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
      <Flag class="" label="Replay tools: take results from this run, execute none" flag={replays} />
      <Flag class="" label="Hold the fork at its start" flag={holds} />
      <ModelChoice chosen={chosen} />
      <Panels open={open} panels={panels}>
        <ActionButton label="Fork without a change" act={plain} />
      </Panels>
      <ProblemText text={problem.value} />
    </section>
  );
}

/** The model of the fork, if the server offers more than one for its agent. */
function ModelChoice({ chosen }: { chosen: Signal<string> }) {
  const { model } = useDesk();
  const started = model.entry(1);
  const agent = started?.type === 'run.started' ? started.agent.name : '';
  // Without an answer, the fork uses the model of the run.
  const { answer } = useRead(() => requestServer<AgentView>(`/agents/${encodeURIComponent(agent)}`), [agent]);
  const models = answer?.forkModels ?? [];
  if (models.length < 2) return null;
  return (
    <label for="fork-model">
      Model{' '}
      <Choice
        id="fork-model"
        value={chosen.value}
        options={[['', 'as this run'], ...models.map(name => [name, formatLine(name, 80)] as const)]}
        onChoose={name => (chosen.value = name)}
      />
    </label>
  );
}

type CallFormsProps = { send: Send; draftKey: string; calls: readonly CallRecord[] };

function CallForms({ send, draftKey, calls }: CallFormsProps) {
  const { model } = useDesk();
  const preferred = calls.findLast(({ call }) => call.gate) ?? calls.at(-1);
  const chosen = useSignal(preferred?.call.callId);
  const record = calls.find(({ call }) => call.callId === chosen.value) ?? calls[0];
  if (record === undefined) return null;
  const { call, seq, told } = record;
  const { callId, name, gate } = call;
  const key = `${draftKey} ${callId}`;
  const change = (input: JsonValue) =>
    gate
      ? decisionCommand({ kind: 'approval', callId }, { type: 'approve', input })
      : { type: 'edit-call', callId, input };
  // A call that had started is in doubt where it started; another one is answered instead of decided.
  const started = told.find(({ type }) => type === 'call.started')?.seq;
  const answer = (output: JsonValue) =>
    started === undefined
      ? decisionCommand({ kind: 'result', callId }, { type: 'result', output })
      : decisionCommand({ kind: 'doubt', callId }, { type: 'happened', output });
  return (
    <div class="fork-call">
      <label for="fork-call">
        Call{' '}
        <Choice
          id="fork-call"
          value={callId}
          options={calls.map(one => [one.call.callId, formatLine(`${one.call.name}, entry ${one.seq}`, 80)])}
          onChoose={id => (chosen.value = id)}
        />
      </label>
      <p class="muted">
        The fork begins at entry {seq}, where the call was made; with another result, where it was started.
      </p>
      <InputForm
        key={key}
        runId={model.runId}
        tool={name}
        label={`Input of ${formatLine(name, 80)}`}
        submit={gate ? 'Fork and approve this input' : 'Fork with this input'}
        unchanged="The input is unchanged."
        draftKey={`${key} input`}
        input={call.input}
        send={input => send({ at: seq, commands: [change(input)] })}
      />
      {gate && (
        <TextForm
          key={`${key} reject`}
          label="Fork and reject"
          field="Reason, which the model reads"
          draftKey={`${key} reason`}
          run={reason =>
            send({ at: seq, commands: [decisionCommand({ kind: 'approval', callId }, rejectionFor(reason))] })
          }
        />
      )}
      <TextForm
        key={`${key} result`}
        json
        label="Fork with this result"
        field="Another result, as JSON"
        draftKey={`${key} result`}
        run={output => send({ at: started ?? seq, commands: [answer(output)] })}
      />
    </div>
  );
}
