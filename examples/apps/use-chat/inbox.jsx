import { useState } from 'react';

/** What waits for a decision. Who may decide is the server's to say: others get its refusal. */
export function Inbox({ items: before }) {
  const [items, setItems] = useState(before);
  const [error, setError] = useState('');
  const load = async () => setItems((await (await fetch('/api/inbox')).json()).items);
  const decide = async ({ runId, call: { callId, digest } }, decision) => {
    const response = await fetch(`/api/runs/${encodeURIComponent(runId)}/${decision}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ callId, digest }),
    });
    setError(response.ok ? '' : (await response.json()).error.message);
    await load();
  };
  return (
    <main>
      {items.map(item => (
        <section key={item.call.id} aria-label={item.call.name}>
          {`${item.call.name} ${JSON.stringify(item.call.input)} ${item.call.reason ?? ''}`}
          <button type="button" onClick={() => decide(item, 'approve')}>
            Approve
          </button>
          <button type="button" onClick={() => decide(item, 'reject')}>
            Reject
          </button>
        </section>
      ))}
      <button type="button" onClick={load}>
        Look again
      </button>
      {error && <p role="alert">{error}</p>}
    </main>
  );
}
