import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { RequestError, request } from '../data/request.ts';
import { submitOnEnter } from '../ui/form.tsx';

/** Exchanges a token for a cookie and reloads the page. */
export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    problem.value = '';
    try {
      await request('/session', { token: field.current?.value ?? '' });
      location.reload();
    } catch (error) {
      problem.value = describeFailure(error);
      field.current?.select();
    }
  };
  return (
    <main class="sign-in">
      <h1>Agentchart</h1>
      <p>This server requires a token to sign in.</p>
      <form onSubmit={submit} onKeyDown={submitOnEnter}>
        <label for="token">Token</label>
        <input ref={field} type="password" id="token" name="token" required autocomplete="current-password" />
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
      <p class="problem" role="alert">
        {problem.value}
      </p>
    </main>
  );
}

const problem = signal('');

function describeFailure(error: unknown): string {
  if (error instanceof RequestError && error.status === 401)
    return 'Wrong token. Use the token that the server was started with (AGENTCHART_TOKEN or --token).';
  return error instanceof Error ? error.message : String(error);
}
