/** A chat with approvals. Each message is a run that continues the one before; the page watches every one of them. */
import { useRun } from 'agentchart/react';
import { type SubmitEvent, useCallback, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

type Said = { text: string; runId: string };

function Chat() {
  const [messages, setMessages] = useState<Said[]>([]);
  const [isBusy, setBusy] = useState(false);
  const done = useCallback(() => setBusy(false), []);

  async function say(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault();
    const form = event.currentTarget;
    const text = String(new FormData(form).get('text'));
    form.reset();
    setBusy(true);
    const last = messages.at(-1);
    const response = await fetch('/runs', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: text, ...(last && { continues: last.runId }) }),
    });
    const { runId } = await response.json();
    setMessages([...messages, { text, runId }]);
  }

  return (
    <>
      <h1>Refunds</h1>
      {messages.map(({ text, runId }) => (
        <Answer key={runId} asked={text} runId={runId} onEnd={done} />
      ))}
      <form onSubmit={say}>
        <label>
          Message <input name="text" required disabled={isBusy} />
        </label>
        <button type="submit" disabled={isBusy}>
          Send
        </button>
      </form>
    </>
  );
}

function Answer({ asked, runId, onEnd }: { asked: string; runId: string; onEnd: () => void }) {
  const { state, status, text, calls, error, approve, reject } = useRun(`/runs/${runId}`);
  const [refusal, setRefusal] = useState('');
  const hasEnded = status === 'finished' || status === 'failed' || status === 'cancelled';
  useEffect(() => {
    if (hasEnded) onEnd();
  }, [hasEnded, onEnd]);

  async function decide(decision: ReturnType<typeof approve>) {
    const answer = await decision;
    setRefusal(answer.accepted ? '' : answer.message);
  }

  return (
    <section aria-label={asked}>
      <p>
        <b>{asked}</b>
      </p>
      {calls
        .filter(call => 'kind' in call && call.kind === 'approval')
        .map(call => (
          <fieldset key={call.callId}>
            <legend>{call.name}</legend>
            <pre>{JSON.stringify(call.input, null, 2)}</pre>
            <button type="button" onClick={() => decide(approve(call))}>
              Approve
            </button>
            <button type="button" onClick={() => decide(reject(call, { reason: 'The user declined.' }))}>
              Reject
            </button>
          </fieldset>
        ))}
      <p aria-live="polite">{text}</p>
      {(error || refusal) && <p role="alert">{error?.message ?? refusal}</p>}
      <small>{state}</small>
    </section>
  );
}

const chat = document.getElementById('chat');
if (chat) createRoot(chat).render(<Chat />);
