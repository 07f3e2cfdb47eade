"""A SOAP service of a plant, by spyne; DELAY_MS is how long its meters take."""

import os
import time

from spyne import Application, ComplexModel, Decimal, Integer, ServiceBase, Unicode, rpc
from spyne.protocol.soap import Soap11
from spyne.server.wsgi import WsgiApplication

DELAY_S = float(os.environ.get("DELAY_MS", "0")) / 1000


class Reading(ComplexModel):
    valve = Integer
    hall = Unicode
    bar = Decimal


class Valve(ComplexModel):
    number = Integer
    name = Unicode
    fitter = Unicode
    reading = Reading


class Plant(ServiceBase):
    @rpc(Integer, _returns=Reading)
    def read_meter(self, valve):
        time.sleep(DELAY_S)
        return Reading(valve=valve, hall="north", bar="7.5")

    @rpc(Integer, _returns=Valve)
    def get_valve(self, number):
        return Valve(number=number, name=f"valve {number}", fitter="fitter 7")

    @rpc(Valve, _returns=Integer)
    def put_valve(self, valve):
        return valve.number


app = WsgiApplication(Application([Plant], "plant", in_protocol=Soap11(validator="lxml"), out_protocol=Soap11()))
