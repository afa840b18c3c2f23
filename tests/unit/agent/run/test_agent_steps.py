#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent's side of the trace: what it says of a run while it is asked to, and that it is silent else.

Usage: see agent_fixture.py."""

from agent_fixture import DEADLINE, KILL, KILLED, OUTPUT, SIGNAL, Case, integers, main


class Steps(Case):
    language = 'raw'

    def words(self, id):
        return [words for traced, _us, words in self.agent.traced if traced == id]

    def in_order(self, words, *wanted):
        places = [next((n for n, line in enumerate(words) if want in line), -1) for want in wanted]
        self.assertNotIn(-1, places, words)
        self.assertEqual(places, sorted(places), words)

    def test_on_the_way_up(self):
        self.agent.hello(2, trace=True)
        self.agent.setup('raw', {'ANOTHER': 'secret'})
        self.run_code('true')  # whose end comes behind all that was said before
        self.in_order(self.words(0), 'greeted', 'the interpreter starts, process ', ' is ready after ')
        self.assertNotIn('secret', str(self.agent.traced))

    def test_a_run(self):
        code = 'echo secret; (exit 3)'
        id = self.agent.start(code, trace=True)
        self.assertEqual(self.agent.finish(id).status, 3)
        self.in_order(self.words(id), f'{len(code)} bytes of code have arrived',
                      'handed to the interpreter, process ', 'the interpreter has answered, status 3',
                      'all that it has written is on its way, in 1 piece')
        self.assertIn('it has written something', self.words(id))
        times = [us for _id, us, _words in self.agent.traced]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1], DEADLINE * 1000000)
        self.assertNotIn('secret', str(self.agent.traced))

    def test_off(self):
        self.run_code('true')
        self.run_code('true')  # whose end comes behind all that was said before
        self.assertEqual(self.agent.traced, [])

    def test_of_one_run_alone(self):
        ids = []
        for trace in False, True, False:
            ids.append(self.agent.start('true', trace=trace))
            self.agent.finish(ids[-1])
        self.run_code('true')  # whose end comes behind all that was said before
        self.assertEqual({traced for traced, _us, _words in self.agent.traced}, {ids[1]})

    def test_until_the_next_greeting(self):
        self.agent.hello(2, trace=True)
        self.run_code('true')  # whose end comes behind all that was said before
        self.assertEqual(self.words(0)[0], 'greeted')
        self.agent.traced.clear()
        self.agent.hello(3)
        self.agent.setup('raw', {'ANOTHER': '1'})
        self.run_code('true')  # whose end comes behind all that was said before
        self.assertEqual(self.agent.traced, [])

    def test_killed(self):
        id = self.agent.start('echo x; sleep 1000', trace=True)
        kind, _flags, data = self.agent.take(id)
        self.assertEqual((kind, data[4:]), (OUTPUT, b'x\n'))
        self.agent.send(SIGNAL, integers('I', KILL), id=id)
        _kind, _flags, data = self.agent.take(id)
        self.assertEqual(int.from_bytes(data[:4], 'little'), KILLED)
        self.in_order(self.words(id), 'handed to the interpreter', 'is being ended', 'all that it has written')


if __name__ == '__main__':
    main()
